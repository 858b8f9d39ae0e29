-- The run is read under lock and judged by what its row says then: a sign of life, a start or an end that came first wins.
CREATE OR REPLACE FUNCTION livebox.reap_run(p_caller jsonb, p_args jsonb) RETURNS livebox.answer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_limits jsonb := p_args->'limits';
    v_run    livebox.runs;
    v_cause  text;
    v_change livebox.run_change;
BEGIN
    SELECT * INTO v_run FROM livebox.runs r WHERE r.id = (p_args->>'run_id')::uuid FOR NO KEY UPDATE;
    IF FOUND THEN
        v_cause := livebox.reap_cause(v_run, livebox.clock(), v_limits);
    END IF;
    CASE v_cause
        WHEN 'undelivered', 'unanswered' THEN
            v_change := livebox.transition_run(v_run, 'failed', 'agent_unavailable', 'server', NULL, '{}', v_limits);
        WHEN 'silent', 'abandoned' THEN
            v_change := livebox.transition_run(v_run, 'failed', 'stale', 'server', NULL, '{}', v_limits);
        WHEN 'left' THEN
            v_change := livebox.transition_run(v_run, 'failed', 'interrupted', 'server', NULL, '{}', v_limits);
        WHEN 'uncancelled' THEN
            v_change := livebox.transition_run(v_run, 'cancelled', 'cancel_timeout', 'server', NULL, '{}', v_limits);
        WHEN 'unmoved' THEN
            PERFORM livebox.show_stall(v_run, greatest(v_run.last_progress_at, v_run.state_changed_at));
        WHEN 'moving' THEN
            PERFORM livebox.show_stall(v_run, NULL);
        ELSE
            RETURN livebox.done('no_content', NULL);
    END CASE;
    RETURN livebox.done('ok', jsonb_build_object('cause', v_cause), effects => v_change.effects);
END $$;
COMMENT ON FUNCTION livebox.reap_run(jsonb, jsonb) IS
    'Does what is due about one run, if it still is, and says for which cause; no_content: nothing is. For the server only. Needs the limits of reap_cause and event.body_max_bytes.';
