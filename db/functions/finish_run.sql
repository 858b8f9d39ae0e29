CREATE OR REPLACE FUNCTION livebox.finish_run(p_caller jsonb, p_args jsonb) RETURNS livebox.answer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_body    jsonb := p_args->'body';
    v_hash    text := livebox.body_hash(jsonb_build_array(p_args->'invocation'->'claim_id', v_body));
    v_hold    livebox.run_hold := livebox.held_run(p_caller, p_args);
    v_run     livebox.runs := v_hold.run;
    v_end     livebox.run_end;
    v_change  livebox.run_change;
BEGIN
    IF (v_hold.refusal).code = 'run_ended' AND v_run.finish_hash = v_hash THEN
        RETURN livebox.run_answer(v_run.id);
    END IF;
    IF (v_hold.refusal).code IS NOT NULL THEN
        RETURN v_hold.refusal;
    END IF;
    v_end := livebox.reported_end(v_run, v_body);
    IF (v_end.refusal).code IS NOT NULL THEN
        RETURN v_end.refusal;
    END IF;
    IF NOT EXISTS (SELECT FROM livebox.run_transitions t WHERE t.from_state = v_run.state AND t.to_state = v_end.state) THEN
        RETURN livebox.run_conflict('invalid_state_transition', v_run, livebox.caller_id(p_caller));
    END IF;
    IF v_end.original IS NOT NULL THEN
        v_run := livebox.keep_reason(v_run, v_end.original, (p_args->'limits'->>'run.step_detail_max_bytes')::bigint);
    END IF;
    v_change := livebox.transition_run(v_run, v_end.state, v_end.reason, 'adapter', (p_caller->>'principal')::uuid,
        livebox.finish_facts(v_run, v_body) || jsonb_build_object('finish_hash', v_hash), p_args->'limits');
    v_run := v_change.run;
    RETURN livebox.done('ok', livebox.run_json(v_run), v_run.version, effects => v_change.effects);
END $$;
COMMENT ON FUNCTION livebox.finish_run(jsonb, jsonb) IS
    'Ends a run as its holder reports it. A repeat by the same claim with the same body answers with the run. Needs the limits run.step_detail_max_bytes and event.body_max_bytes.';
