-- Server-owned members win over a member of the same name in the document: there is no second copy of anything.
CREATE OR REPLACE FUNCTION livebox.run_json(p_run livebox.runs) RETURNS jsonb LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
BEGIN
    RETURN p_run.document || livebox.registration_json(p_run) || jsonb_strip_nulls(jsonb_build_object(
        'schema', 'run_document.v1',
        'id', p_run.id,
        'thread_id', p_run.thread_id,
        'channel_id', (SELECT t.channel_id FROM livebox.threads t WHERE t.id = p_run.thread_id),
        'agent_id', p_run.agent_id,
        'state', p_run.state,
        'state_reason', p_run.state_reason,
        'version', p_run.version,
        'trigger_kind', p_run.trigger_kind,
        'triggered_by', p_run.triggered_by,
        'triggering_message_id', livebox.shown_trigger(p_run),
        'billing_mode_expected', p_run.billing_mode_expected,
        'billing_mode_used', p_run.billing_mode_used,
        'model', p_run.model,
        'summary', p_run.summary,
        'queued_at', livebox.utc(p_run.queued_at),
        'claimed_at', livebox.utc(p_run.claimed_at),
        'started_at', livebox.utc(p_run.started_at),
        'finished_at', livebox.utc(p_run.finished_at),
        'duration_ms', p_run.duration_ms,
        'step_count', p_run.step_count,
        'cost', livebox.run_cost_json(p_run),
        'cancel', livebox.run_cancel_json(p_run),
        'stalled_since', livebox.utc(p_run.stalled_since),
        'last_heartbeat_at', livebox.utc(p_run.last_heartbeat_at),
        'last_progress_at', livebox.utc(p_run.last_progress_at),
        'document_as_of', livebox.utc(p_run.document_as_of),
        'question', p_run.question,
        'steps', (SELECT jsonb_object_agg((latest.step).id, livebox.run_step_json(latest.step))
                    FROM (SELECT s AS step FROM livebox.run_steps s
                           WHERE s.run_id = p_run.id ORDER BY s.ordinal DESC LIMIT 1000) AS latest),
        'followups', (SELECT jsonb_object_agg(latest.message_id, jsonb_build_object(
                                 'message_id', latest.message_id, 'position', latest.position,
                                 'state', latest.state, 'at', livebox.utc(latest.at)))
                        FROM (SELECT f.* FROM livebox.run_followups f
                               WHERE f.run_id = p_run.id ORDER BY f.position DESC LIMIT 1000) AS latest)));
END $$;
COMMENT ON FUNCTION livebox.run_json(livebox.runs) IS 'The run document: what the server owns and what the agent patches, side by side; of very many steps and follow-ups the latest thousand.';
