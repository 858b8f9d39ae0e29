-- In the transaction of createMessage, after the message and its event were written. What comes out is business: it
-- never undoes the message. The numbers are those of the steps in docs/runs.md.
CREATE OR REPLACE FUNCTION livebox.accept_message(p_message_id uuid, p_limits jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_message   livebox.messages;
    v_thread    livebox.threads;
    v_channel   livebox.channels;
    v_mentioned uuid[];
    v_active    livebox.runs;
    v_agent     uuid;
    v_answers   boolean;
    v_opens     boolean;
    v_denial    text;
    v_own       text;
    v_effects   jsonb := '[]';
    v_run       livebox.runs;
BEGIN
    -- 1: only what people write, and never in a DM. So agents never trigger agents.
    SELECT * INTO STRICT v_message FROM livebox.messages m WHERE m.id = p_message_id;
    SELECT * INTO STRICT v_thread FROM livebox.threads t WHERE t.id = v_message.thread_id;
    SELECT * INTO STRICT v_channel FROM livebox.channels c WHERE c.id = v_thread.channel_id;
    IF v_message.origin <> 'human' OR v_message.kind <> 'text' OR v_channel.kind = 'dm' THEN
        RETURN '[]';
    END IF;

    -- 2: one agent at a time.
    SELECT array_agg(p.id) INTO v_mentioned
      FROM livebox.principals p WHERE p.id = ANY (v_message.mentions) AND p.kind = 'agent';
    IF cardinality(v_mentioned) > 1 THEN
        PERFORM livebox.set_trigger_state(p_message_id, 'failed', 'multiple_agents_mentioned', v_message.author_id, p_limits);
        RETURN '[]';
    END IF;

    LOOP
        -- 3: who is meant. A message without a mention answers the run that waits in its thread.
        v_active := livebox.active_run(v_thread.id);
        v_answers := v_mentioned IS NULL AND v_active.state IS NOT DISTINCT FROM 'waiting_input';
        v_agent := CASE
            WHEN v_mentioned IS NOT NULL THEN v_mentioned[1]
            WHEN v_answers THEN v_active.agent_id
            WHEN v_thread.is_main AND v_channel.operator_replies_in_main
              OR NOT v_thread.is_main AND v_channel.operator_replies_in_threads
            THEN coalesce(v_thread.operator_agent_id, v_channel.operator_agent_id)
        END;
        IF v_agent IS NULL THEN
            RETURN '[]';
        END IF;

        -- 4: where. An answer stays where its question is.
        v_opens := v_thread.is_main AND v_channel.auto_thread AND NOT v_answers;
        IF v_opens THEN
            v_active := NULL;
        END IF;

        -- 5: nobody learns from a message without a mention that it would have been refused.
        IF v_mentioned IS NULL AND livebox.channel_level(v_message.author_id, v_channel.id) < 3 THEN
            RETURN '[]';
        END IF;

        -- 6: the decision, held against what the steps before know by themselves.
        v_denial := livebox.authorize(v_message.author_id, 'agent.invoke', jsonb_strip_nulls(jsonb_build_object(
            'agent_id', v_agent, 'thread_id', v_thread.id, 'origin', v_message.origin,
            'mentioned', v_mentioned IS NOT NULL, 'active_agent_id', v_active.agent_id)));
        v_own := livebox.own_denial(v_message.author_id, v_agent, v_channel.id, v_active.agent_id, v_denial);
        EXIT WHEN v_denial IS NOT NULL OR v_own IS NOT NULL;

        -- 7: the agent is at work there already.
        IF v_active.id IS NOT NULL THEN
            IF (SELECT count(*) FROM livebox.run_followups f WHERE f.run_id = v_active.id AND f.state = 'pending')
               >= (p_limits->>'run.followups_max')::bigint THEN
                PERFORM livebox.set_trigger_state(p_message_id, 'failed', 'followup_limit', v_message.author_id, p_limits);
            ELSE
                PERFORM livebox.add_followup(v_active, p_message_id, livebox.run_now(v_active));
                PERFORM livebox.set_trigger_state(p_message_id, 'received', NULL, v_message.author_id, p_limits);
            END IF;
            RETURN '[]';
        END IF;

        -- 8: the run. Whoever loses the race for the thread looks again: the winner's run is there now.
        v_run := livebox.open_run(
            v_message, v_agent, CASE WHEN v_opens THEN livebox.open_thread(v_message, v_channel) ELSE v_thread.id END,
            v_message.created_at, v_message.author_id, p_limits);
        IF v_run.id IS NOT NULL THEN
            RETURN '[]';
        END IF;
    END LOOP;

    IF v_denial IS NOT NULL THEN
        PERFORM livebox.audit(v_message.author_id, 'agent.invoke', v_denial, 'agent', v_agent, v_channel.id);
    END IF;
    IF v_own IS NOT NULL THEN
        v_effects := v_effects || '[{"kind": "log", "level": "error", "event": "trigger_decision_mismatch"}]';
    END IF;
    v_denial := coalesce(v_denial, v_own);
    IF NOT EXISTS (SELECT FROM livebox.rejection_reasons r WHERE r.code = v_denial) THEN
        PERFORM set_config('livebox.unlisted_denial', v_denial, true);
        v_effects := v_effects || '[{"kind": "log", "level": "error", "event": "trigger_denial_unlisted"}]';
    END IF;
    PERFORM livebox.set_trigger_state(p_message_id, 'failed', v_denial, v_message.author_id, p_limits);
    RETURN v_effects;
END $$;
COMMENT ON FUNCTION livebox.accept_message(uuid, jsonb) IS
    'Decides whether a stored message opens a run, follows one up or is rejected, and does that. Needs the limits run.followups_max and event.body_max_bytes. Gives facts to record after the commit.';
