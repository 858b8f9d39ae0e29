CREATE OR REPLACE FUNCTION livebox.run_summary_json(p_run livebox.runs, p_channel uuid DEFAULT NULL) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
BEGIN
    RETURN jsonb_strip_nulls(jsonb_build_object(
        'id', p_run.id,
        'thread_id', p_run.thread_id,
        'channel_id', coalesce(p_channel, (SELECT t.channel_id FROM livebox.threads t WHERE t.id = p_run.thread_id)),
        'agent_id', p_run.agent_id,
        'state', p_run.state,
        'state_reason', p_run.state_reason,
        'version', p_run.version,
        'trigger_kind', p_run.trigger_kind,
        'triggered_by', p_run.triggered_by,
        'queued_at', livebox.utc(p_run.queued_at),
        'started_at', livebox.utc(p_run.started_at),
        'finished_at', livebox.utc(p_run.finished_at),
        'duration_ms', p_run.duration_ms,
        'step_count', p_run.step_count,
        'cost', livebox.run_cost_json(p_run),
        'headline', p_run.document->'headline',
        'cancel_requested_at', livebox.utc(p_run.cancel_requested_at),
        'stalled_since', livebox.utc(p_run.stalled_since)));
END $$;
COMMENT ON FUNCTION livebox.run_summary_json(livebox.runs, uuid) IS
    'A run in lists, the snapshot and events: its durable values. p_channel saves looking up the thread''s channel where it is known.';
