CREATE OR REPLACE FUNCTION livebox.resume_run(p_caller jsonb, p_args jsonb) RETURNS livebox.answer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_hash   text := livebox.body_hash(jsonb_build_array(p_args->'invocation'->'claim_id', coalesce(p_args->'body', '{}')));
    v_named  uuid := (p_args->'body'->>'question_id')::uuid;
    v_hold   livebox.run_hold := livebox.held_run(p_caller, p_args);
    v_run    livebox.runs := v_hold.run;
    v_change livebox.run_change;
BEGIN
    IF (v_hold.refusal).code IS NOT NULL THEN
        RETURN v_hold.refusal;
    ELSIF v_run.state = 'running' AND v_run.resume_hash = v_hash THEN
        RETURN livebox.run_answer(v_run.id);
    ELSIF v_named IS NOT NULL AND NOT EXISTS (
        SELECT FROM livebox.run_questions q WHERE q.run_id = v_run.id AND q.question_id = v_named) THEN
        RETURN livebox.invalid_member('unknown_reference', '/question_id', 'No such question in this run.');
    ELSIF v_named IS NOT NULL AND v_named IS DISTINCT FROM (v_run.question->>'question_id')::uuid THEN  -- a late repeat
        RETURN livebox.run_answer(v_run.id);
    ELSIF v_run.state <> 'waiting_input' THEN
        RETURN livebox.run_conflict('invalid_state_transition', v_run, livebox.caller_id(p_caller));
    END IF;
    v_change := livebox.transition_run(v_run, 'running', NULL, 'adapter', (p_caller->>'principal')::uuid,
        jsonb_build_object('resume_hash', v_hash), p_args->'limits');
    v_run := v_change.run;
    RETURN livebox.done('ok', livebox.run_json(v_run), v_run.version, effects => v_change.effects);
END $$;
COMMENT ON FUNCTION livebox.resume_run(jsonb, jsonb) IS
    'waiting_input to running by the holder of the run, with or without an answer. A repeat by the same claim answers with the run; so does one that names an earlier question, whatever the run does now. Needs the limit event.body_max_bytes.';
