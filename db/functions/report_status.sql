CREATE OR REPLACE FUNCTION livebox.report_status(
    p_run livebox.runs, p_new livebox.runs, p_status text, p_me uuid, p_limits jsonb) RETURNS livebox.run_change
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_run    livebox.runs := p_run;
    v_reason text := CASE p_status WHEN 'failed' THEN livebox.normalise_reason(p_new.halt_reason)
                                   WHEN 'cancelled' THEN 'user_cancelled' END;
    v_facts  jsonb := jsonb_strip_nulls(jsonb_build_object(
        'reported_steps', p_new.reported_steps, 'halt_reason', p_new.halt_reason, 'detector', p_new.detector,
        'governance_events', p_new.governance_events, 'reported_ended_at', p_new.reported_ended_at,
        'cost_micros', p_new.cost_micros, 'currency', p_new.currency, 'cost_is_estimate', p_new.cost_is_estimate));
BEGIN
    IF p_status = 'failed' AND v_reason <> p_new.halt_reason THEN
        v_run := livebox.keep_reason(v_run, p_new.halt_reason, (p_limits->>'run.step_detail_max_bytes')::bigint);
    ELSIF p_status = 'cancelled' THEN
        v_facts := v_facts || jsonb_build_object('cancel_requested_by', p_me) || CASE
            WHEN v_run.state = 'running' AND p_me <> v_run.agent_id THEN '{"cancel_outcome": "forced"}'::jsonb ELSE '{}' END;
    END IF;
    RETURN livebox.transition_run(v_run, p_status, v_reason, 'adapter', p_me,
                                  v_facts || jsonb_build_object('step_count', v_run.step_count), p_limits);
END $$;
COMMENT ON FUNCTION livebox.report_status(livebox.runs, livebox.runs, text, uuid, jsonb) IS
    'Takes a registered run to the state that was reported, together with the rest of the report. Why it failed is normalised like an adapter''s reason. Needs the limits run.step_detail_max_bytes and event.body_max_bytes.';
