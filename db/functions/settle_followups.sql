-- None is lost when a run ends: the first that is still allowed opens the next run, those behind it move there in order,
-- and one that is no longer allowed is returned with the reason on its message.
CREATE OR REPLACE FUNCTION livebox.settle_followups(p_run livebox.runs, p_actor uuid, p_limits jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    -- What the agent had taken into its work counts as done with it, unless the work itself was lost.
    v_lost    boolean := p_run.state_reason IN ('stale', 'interrupted', 'adapter_error');
    v_now     timestamptz := greatest(livebox.clock(), p_run.finished_at);
    v_row     livebox.run_followups;
    v_message livebox.messages;
    v_next    livebox.runs;
    v_denial  text;
BEGIN
    FOR v_row IN
        SELECT * FROM livebox.run_followups f
         WHERE f.run_id = p_run.id AND f.state IN ('pending', 'delivered')
         ORDER BY f.position
    LOOP
        IF v_row.state = 'delivered' AND v_lost IS NOT TRUE THEN
            PERFORM livebox.set_trigger_state(v_row.message_id, livebox.trigger_state_of(p_run.state), p_run.state_reason,
                                              p_actor, p_limits);
            CONTINUE;
        END IF;
        SELECT * INTO v_message FROM livebox.messages m WHERE m.id = v_row.message_id;
        v_denial := CASE
            WHEN v_message.deleted_at IS NOT NULL OR v_next.id IS NOT NULL THEN NULL
            WHEN p_run.state_reason = 'agent_unavailable' THEN 'agent_unavailable'
            ELSE livebox.delivery_denial(v_message.author_id, p_run.agent_id, p_run.thread_id) END;
        UPDATE livebox.run_followups f
           SET state = CASE WHEN v_message.deleted_at IS NOT NULL THEN 'cancelled'
                           WHEN v_denial IS NULL THEN 'promoted' ELSE 'returned' END, at = greatest(v_now, f.at)
         WHERE f.run_id = v_row.run_id AND f.message_id = v_row.message_id;
        CONTINUE WHEN v_message.deleted_at IS NOT NULL;
        IF v_denial IS NOT NULL THEN
            IF p_run.state_reason IS DISTINCT FROM 'agent_unavailable' THEN
                PERFORM livebox.audit(v_message.author_id, 'agent.invoke', v_denial, 'agent', p_run.agent_id,
                                      (SELECT t.channel_id FROM livebox.threads t WHERE t.id = p_run.thread_id));
            END IF;
            PERFORM livebox.set_trigger_state(v_row.message_id, 'failed', v_denial, p_actor, p_limits);
        ELSIF v_next.id IS NULL THEN
            v_next := livebox.open_run(v_message, p_run.agent_id, p_run.thread_id, v_now, p_actor, p_limits);
        ELSE
            v_next := livebox.add_followup(v_next, v_row.message_id, v_now);
            PERFORM livebox.set_trigger_state(v_row.message_id, 'received', NULL, p_actor, p_limits);
        END IF;
    END LOOP;
    RETURN '[]';
END $$;
COMMENT ON FUNCTION livebox.settle_followups(livebox.runs, uuid, jsonb) IS
    'Settles the unfinished follow-ups of a run that has just ended, by position: promoted, carried over or returned; one whose message was deleted is cancelled. Gives facts to record after the commit.';
