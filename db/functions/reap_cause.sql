-- The one place that knows what each deadline means. A waiting run is never stale: nobody has to beat while people think.
-- A registered run is watched by who registered it, unless it is said when it counts as given up.
CREATE OR REPLACE FUNCTION livebox.reap_cause(p_run livebox.runs, p_now timestamptz, p_limits jsonb) RETURNS text
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_since    timestamptz := livebox.service_since(p_now, p_limits);
    v_heard    timestamptz := greatest(p_run.last_heartbeat_at, p_run.last_progress_at, p_run.state_changed_at);
    v_moved    timestamptz := greatest(p_run.last_progress_at, p_run.state_changed_at);
    v_answered timestamptz;
BEGIN
    IF p_run.finished_at IS NOT NULL THEN
        RETURN NULL;
    ELSIF p_run.trigger_kind = 'registration' THEN
        RETURN CASE WHEN p_run.state = 'running' AND (p_limits->>'registered.stale_after')::double precision > 0
                         AND livebox.reap_at('registered.stale_after', greatest(v_moved, v_since), p_limits) <= p_now THEN 'abandoned' END;
    ELSIF p_run.state = 'waiting_input' THEN
        v_answered := (SELECT min(f.answers_since) FROM livebox.run_followups f
                        WHERE f.run_id = p_run.id AND f.answers_since IS NOT NULL);
    END IF;
    RETURN CASE
        WHEN p_run.state = 'queued'
             AND livebox.reap_at('run.delivery_timeout', greatest(p_run.queued_at, v_since), p_limits) <= p_now THEN 'undelivered'
        WHEN v_answered IS NOT NULL
             AND livebox.reap_at('run.delivery_timeout', greatest(v_answered, v_since), p_limits) <= p_now THEN 'unanswered'
        WHEN p_run.state <> 'running' THEN NULL
        WHEN p_run.cancel_deadline <= p_now
             AND livebox.reap_at('run.cancel_timeout', v_since, p_limits) <= p_now THEN 'uncancelled'
        WHEN p_run.session_closed_at >= v_heard
             AND livebox.reap_at('run.interrupt_grace', greatest(p_run.session_closed_at, v_since), p_limits) <= p_now THEN 'left'
        WHEN livebox.reap_at('run.stale_after', greatest(v_heard, v_since), p_limits) <= p_now THEN 'silent'
        WHEN p_run.stalled_since IS NULL
             AND livebox.reap_at('run.stall_after', greatest(v_moved, v_since), p_limits) <= p_now THEN 'unmoved'
        WHEN p_run.last_progress_at > p_run.stalled_since THEN 'moving'
    END;
END $$;
COMMENT ON FUNCTION livebox.reap_cause(livebox.runs, timestamptz, jsonb) IS
    'What is to be done about a run at p_now, if anything: undelivered, unanswered, uncancelled, left, silent, abandoned (each ends it), unmoved or moving (it begins or ceases to show as stalled). Needs the limits run.delivery_timeout, run.cancel_timeout, run.interrupt_grace, run.stale_after, run.stall_after, registered.stale_after and service.gap.';
