CREATE OR REPLACE FUNCTION livebox.await_run_input(p_caller jsonb, p_args jsonb) RETURNS livebox.answer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_me     uuid := (p_caller->>'principal')::uuid;
    v_body   jsonb := p_args->'body';
    v_facts  jsonb := jsonb_build_object('await_hash', livebox.body_hash(
        jsonb_build_array(p_args->'invocation'->'claim_id', v_body)));
    v_hash   text := livebox.body_hash(v_body);
    v_named  uuid := (v_body->>'question_id')::uuid;
    v_before text;
    v_hold   livebox.run_hold := livebox.held_run(p_caller, p_args);
    v_run    livebox.runs := v_hold.run;
    v_change livebox.run_change;
BEGIN
    IF v_run.await_hash = v_facts->>'await_hash'
       AND (v_run.state = 'waiting_input' AND (v_hold.refusal).code IS NULL OR (v_hold.refusal).code = 'run_ended') THEN
        RETURN livebox.run_answer(v_run.id);
    ELSIF (v_hold.refusal).code IS NOT NULL THEN
        RETURN v_hold.refusal;
    END IF;
    v_before := (SELECT q.request_hash FROM livebox.run_questions q WHERE q.run_id = v_run.id AND q.question_id = v_named);
    IF v_before = v_hash THEN  -- a late repeat: the run may have gone on since, or wait with another question
        RETURN livebox.run_answer(v_run.id);
    ELSIF v_before IS NOT NULL THEN
        RETURN livebox.invalid_member('not_allowed_value', '/question_id', 'Another question of this run has that id.');
    ELSIF v_run.state <> 'running' THEN
        RETURN livebox.run_conflict('invalid_state_transition', v_run, livebox.caller_id(p_caller));
    ELSIF v_run.cancel_requested_at IS NOT NULL THEN
        v_change := livebox.transition_run(v_run, 'cancelled', 'user_cancelled', 'adapter', v_me,
            v_facts || '{"cancel_outcome": "while_waiting"}', p_args->'limits');
    ELSIF EXISTS (SELECT FROM livebox.run_followups f WHERE f.run_id = v_run.id AND f.state = 'pending') THEN
        RETURN livebox.run_conflict('followups_pending', v_run, livebox.caller_id(p_caller));
    ELSE
        v_change := livebox.transition_run(v_run, 'waiting_input', NULL, 'adapter', v_me,
            v_facts || jsonb_build_object('question', v_body || jsonb_build_object(
                'asked_at', livebox.utc(livebox.run_now(v_run)))), p_args->'limits');
    END IF;
    v_run := v_change.run;
    INSERT INTO livebox.run_questions (run_id, question_id, request_hash)
    SELECT v_run.id, v_named, v_hash WHERE v_named IS NOT NULL;
    RETURN livebox.done('ok', livebox.run_json(v_run), v_run.version, effects => v_change.effects);
END $$;
COMMENT ON FUNCTION livebox.await_run_input(jsonb, jsonb) IS
    'running to waiting_input with a question, by the holder of the run; not while follow-ups wait to be taken. Where cancellation was asked for it ends the run instead. A repeat by the same claim with the same body answers with the run while it waits; of a question that was named, at any time until the run ends. Needs the limit event.body_max_bytes.';
