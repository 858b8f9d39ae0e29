CREATE OR REPLACE FUNCTION livebox.record_run_step(p_caller jsonb, p_args jsonb) RETURNS livebox.answer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_body   jsonb := p_args->'body';
    v_id     uuid := (p_args->>'step_id')::uuid;
    v_parent uuid := (v_body->>'parent_step_id')::uuid;
    v_status text := coalesce(v_body->>'status', 'running');
    v_hash   text := livebox.body_hash('{"status": "running"}' || v_body);
    v_hold   livebox.run_hold := livebox.reported_run(p_caller, p_args);
    v_run    livebox.runs := v_hold.run;
    v_now    timestamptz;
    v_step   livebox.run_steps;
    v_change livebox.run_change;
BEGIN
    IF (v_hold.refusal).code IS NOT NULL THEN
        RETURN v_hold.refusal;
    END IF;
    SELECT * INTO v_step FROM livebox.run_steps s WHERE s.run_id = v_run.id AND s.id = v_id;
    IF FOUND THEN
        IF v_step.request_hash IS DISTINCT FROM v_hash THEN
            RETURN livebox.run_conflict('step_id_reused', v_run, livebox.caller_id(p_caller));
        END IF;
        RETURN livebox.done('ok', livebox.run_step_json(v_step));
    END IF;
    IF v_run.state = 'queued' THEN
        RETURN livebox.run_conflict('invalid_state_transition', v_run, livebox.caller_id(p_caller));
    END IF;
    IF v_parent IS NOT NULL AND NOT EXISTS (
        SELECT FROM livebox.run_steps s
         WHERE s.run_id = v_run.id AND s.id = v_parent AND s.recorded_by IS NOT NULL) THEN
        RETURN livebox.invalid_member('unknown_reference', '/parent_step_id', 'No such step in this run.');
    END IF;
    IF v_body->>'name' IN ('earlier_steps', 'adapter_reason') THEN
        RETURN livebox.invalid_member('not_allowed_value', '/name', 'Only the server names a step like this.');
    END IF;
    IF octet_length((v_body->'detail')::text) > (p_args->'limits'->>'run.step_detail_max_bytes')::bigint THEN
        RETURN livebox.invalid_member('too_long', '/detail', 'Larger than run.step_detail_max_bytes.');
    END IF;
    v_now := livebox.run_now(v_run);
    INSERT INTO livebox.run_steps (run_id, id, ordinal, parent_step_id, kind, name, title, status, detail, recorded_by,
                                   request_hash, started_at, finished_at)
    VALUES (v_run.id, v_id, v_run.step_count + 1, v_parent, v_body->>'kind', v_body->>'name', v_body->>'title', v_status,
            coalesce(v_body->'detail', '{}'), (p_caller->>'principal')::uuid, v_hash, v_now,
            CASE WHEN v_status <> 'running' THEN v_now END)
    RETURNING * INTO v_step;
    v_run := livebox.count_step(v_run, 1, v_now);
    PERFORM livebox.compact_steps(v_run, p_args->'limits');
    v_change := livebox.end_exhausted(v_run, p_args->'limits');
    IF v_change.effects IS NOT NULL THEN  -- the end has closed it
        SELECT * INTO STRICT v_step FROM livebox.run_steps s WHERE s.run_id = v_run.id AND s.id = v_id;
    END IF;
    RETURN livebox.done('ok', livebox.run_step_json(v_step), effects => v_change.effects);
END $$;
COMMENT ON FUNCTION livebox.record_run_step(jsonb, jsonb) IS
    'Records a step under the id that the agent chose, with the next ordinal. The same again answers with the step as it is now; another body under that id is refused. The step that reaches the budget of a registered run ends it. Needs the limits run.step_detail_max_bytes, run.max_steps_persisted and event.body_max_bytes.';
