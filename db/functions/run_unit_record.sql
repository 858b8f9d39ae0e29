-- Only what a snapshot is made of: of the document neither text nor plan, of the steps those that its units name.
CREATE OR REPLACE FUNCTION livebox.run_unit_record(p_run livebox.runs, p_units boolean) RETURNS jsonb
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_document jsonb;
    v_named    jsonb;
    v_steps    jsonb;
BEGIN
    SELECT jsonb_object_agg(m.key, m.value) INTO v_document
      FROM jsonb_each(p_run.document) AS m
     WHERE m.key IN ('waiting_on', 'metrics', 'refs') OR p_units AND m.key IN ('subagents', 'workflows', 'jobs');
    IF p_units THEN
        SELECT jsonb_agg(DISTINCT u.value->>'step_id') INTO v_named
          FROM jsonb_each(v_document) AS m CROSS JOIN LATERAL jsonb_each(m.value) AS u
         WHERE m.key IN ('subagents', 'workflows', 'jobs') AND u.value ? 'step_id';
        v_steps := livebox.named_steps(p_run.id, v_named);
    END IF;
    RETURN jsonb_strip_nulls(jsonb_build_object(
        'at', livebox.utc(p_run.queued_at),
        'id', p_run.id,
        'registered', p_run.thread_id IS NULL,
        'state', p_run.state,
        'state_reason', p_run.state_reason,
        'claimed', p_run.claimed_at IS NOT NULL,
        'cancel_asked', p_run.cancel_requested_at IS NOT NULL,
        'ended_at_ms', floor(extract(epoch FROM p_run.finished_at) * 1000)::bigint,
        'duration_ms', p_run.duration_ms,
        'step_count', greatest(p_run.step_count, livebox.reported_step_count(p_run)),
        'summary', p_run.summary,
        'halt_reason', p_run.halt_reason,
        'parent_run_id', p_run.parent_run_id,
        'token_budget', p_run.budget->'tokens',
        'max_steps', p_run.budget->'steps',
        'spent_tokens', CASE WHEN p_run.spend_entries > 0 THEN p_run.spend_tokens END,
        'compacted', EXISTS (SELECT FROM livebox.run_steps s WHERE s.run_id = p_run.id AND s.stands_for IS NOT NULL),
        'serving', CASE WHEN p_run.live_owner IS NOT NULL AND p_run.finished_at IS NULL
                        THEN jsonb_build_object('owner', p_run.live_owner, 'epoch', p_run.live_epoch) END,
        'document', v_document,
        'steps', v_steps));
END $$;
COMMENT ON FUNCTION livebox.run_unit_record(livebox.runs, boolean) IS
    'A run as the process maps it, and with p_units the units in its document, to snapshots: its durable values, the saved document, the steps that units name, and which process serves the live document.';
