CREATE OR REPLACE FUNCTION livebox.update_run_step(p_caller jsonb, p_args jsonb) RETURNS livebox.answer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_body livebox.run_steps;
    v_hold livebox.run_hold := livebox.reported_run(p_caller, p_args);
    v_run  livebox.runs := v_hold.run;
    v_now  timestamptz;
    v_step livebox.run_steps;
BEGIN
    IF (v_hold.refusal).code IS NOT NULL THEN
        RETURN v_hold.refusal;
    END IF;
    SELECT * INTO v_step FROM livebox.run_steps s WHERE s.run_id = v_run.id AND s.id = (p_args->>'step_id')::uuid;
    IF NOT FOUND THEN
        RETURN livebox.refused('not_found');
    END IF;
    IF octet_length((p_args->'body'->'detail')::text) > (p_args->'limits'->>'run.step_detail_max_bytes')::bigint THEN
        RETURN livebox.invalid_member('too_long', '/detail', 'Larger than run.step_detail_max_bytes.');
    END IF;
    v_body := jsonb_populate_record(v_step, p_args->'body');
    IF (v_body.title, v_body.status, v_body.detail) IS NOT DISTINCT FROM (v_step.title, v_step.status, v_step.detail) THEN
        RETURN livebox.done('ok', livebox.run_step_json(v_step));
    END IF;
    IF v_step.finished_at IS NOT NULL THEN
        RETURN livebox.run_conflict('step_finished', v_run, livebox.caller_id(p_caller));
    END IF;
    v_now := greatest(livebox.run_now(v_run), v_step.started_at);
    UPDATE livebox.run_steps s
       SET title = v_body.title, status = v_body.status, detail = v_body.detail,
           finished_at = CASE WHEN v_body.status <> 'running' THEN v_now END
     WHERE s.run_id = v_step.run_id AND s.id = v_step.id
    RETURNING * INTO v_step;
    PERFORM livebox.count_step(v_run, 0, v_now);
    RETURN livebox.done('ok', livebox.run_step_json(v_step));
END $$;
COMMENT ON FUNCTION livebox.update_run_step(jsonb, jsonb) IS
    'Replaces title, status or detail of a step. A finished step is final; repeating what is stored changes nothing. Needs the limit run.step_detail_max_bytes.';
