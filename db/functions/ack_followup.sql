CREATE OR REPLACE FUNCTION livebox.ack_followup(p_caller jsonb, p_args jsonb) RETURNS livebox.answer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_me      uuid := (p_caller->>'principal')::uuid;
    v_hold    livebox.run_hold := livebox.held_run(p_caller, p_args);
    v_run     livebox.runs := v_hold.run;
    v_row     livebox.run_followups;
    v_message livebox.messages;
    v_denial  text;
BEGIN
    IF (v_hold.refusal).code IS NOT NULL THEN
        RETURN v_hold.refusal;
    END IF;
    SELECT * INTO v_row FROM livebox.run_followups f
     WHERE f.run_id = v_run.id AND f.message_id = (p_args->>'message_id')::uuid;
    IF NOT FOUND THEN
        RETURN livebox.refused('not_found');
    ELSIF v_row.state = 'delivered' THEN
        RETURN livebox.done('ok', livebox.run_followup_json(
            v_row, livebox.delivery_denial(v_run.triggered_by, v_run.agent_id, v_run.thread_id) IS NULL));
    ELSIF v_row.state <> 'pending' THEN
        RETURN livebox.run_conflict('followup_closed', v_run, livebox.caller_id(p_caller));
    END IF;
    SELECT * INTO STRICT v_message FROM livebox.messages m WHERE m.id = v_row.message_id;
    v_denial := livebox.delivery_denial(v_message.author_id, v_run.agent_id, v_run.thread_id);
    IF v_denial IS NOT NULL THEN
        v_run := livebox.return_followup(v_run, v_message, v_denial, NULL, p_args->'limits');
        RETURN livebox.run_conflict('followup_closed', v_run, livebox.caller_id(p_caller));
    END IF;
    v_run := livebox.set_followup(v_run, v_row.message_id, 'delivered');
    PERFORM livebox.set_trigger_state(v_row.message_id, 'followup_delivered', NULL, v_me, p_args->'limits');
    SELECT * INTO STRICT v_row FROM livebox.run_followups f
     WHERE f.run_id = v_run.id AND f.message_id = v_row.message_id;
    RETURN livebox.done('ok', livebox.run_followup_json(v_row, true));
END $$;
COMMENT ON FUNCTION livebox.ack_followup(jsonb, jsonb) IS
    'Takes a follow-up into the work of the run''s holder, checked again with the rights of now: one that is not allowed any more is returned, and refused like one that is closed. A repeat answers with what is stored. Needs the limit event.body_max_bytes.';
