CREATE OR REPLACE FUNCTION livebox.return_followup(
    p_run livebox.runs, p_message livebox.messages, p_denial text, p_actor uuid, p_limits jsonb) RETURNS livebox.runs
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_run livebox.runs := livebox.set_followup(p_run, p_message.id, 'returned');
BEGIN
    PERFORM livebox.audit(p_message.author_id, 'agent.invoke', p_denial, 'agent', p_run.agent_id,
                          (SELECT t.channel_id FROM livebox.threads t WHERE t.id = p_run.thread_id));
    PERFORM livebox.set_trigger_state(p_message.id, 'failed', p_denial, p_actor, p_limits);
    RETURN v_run;
END $$;
COMMENT ON FUNCTION livebox.return_followup(livebox.runs, livebox.messages, text, uuid, jsonb) IS
    'Gives a follow-up of an active run back because its author may not have the agent work for them any more: recorded, and said on the message. Gives the run after it.';
