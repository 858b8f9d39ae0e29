-- Events in order: message.created (anchor), run.state_changed (queued), message.updated (received).
CREATE OR REPLACE FUNCTION livebox.open_run(
    p_message livebox.messages, p_agent uuid, p_thread uuid, p_since timestamptz, p_actor uuid, p_limits jsonb)
RETURNS livebox.runs LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_now    timestamptz := greatest(livebox.clock(), p_message.created_at, p_since);
    v_run    livebox.runs;
    v_anchor livebox.messages;
BEGIN
    INSERT INTO livebox.runs (id, thread_id, agent_id, state, state_changed_at, state_changed_by, trigger_kind,
                              triggering_message_id, triggered_by, billing_mode_expected, invocation_jti, queued_at)
    SELECT livebox.new_id(), p_thread, a.id, 'queued', v_now, p_actor, 'message',
           p_message.id, p_message.author_id, a.billing_mode, gen_random_uuid(), v_now
      FROM livebox.principals a
     WHERE a.id = p_agent
    ON CONFLICT (thread_id) WHERE state IN ('queued', 'running', 'waiting_input') DO NOTHING
    RETURNING * INTO v_run;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;

    INSERT INTO livebox.messages (thread_id, author_id, origin, kind, body, silent, run_id, thread_seq, created_at)
    VALUES (p_thread, p_agent, 'agent', 'run', '', true, v_run.id, livebox.next_thread_seq(p_thread), v_now)
    RETURNING * INTO v_anchor;
    PERFORM livebox.append_message_event('message.created', v_anchor, p_actor, p_limits);
    PERFORM livebox.run_event('run.state_changed', v_run, p_actor, jsonb_build_object(
        'triggering_message_id', p_message.id, 'trigger_state', 'received'));
    PERFORM livebox.set_trigger_state(p_message.id, 'received', NULL, p_actor, p_limits);
    RETURN v_run;
END $$;
COMMENT ON FUNCTION livebox.open_run(livebox.messages, uuid, uuid, timestamptz, uuid, jsonb) IS
    'Opens a queued run for a message with its anchor in the thread, and says so on the message. NULL when the thread has an active run: whoever loses that race has written nothing. The new token id is one that no token carries yet.';
