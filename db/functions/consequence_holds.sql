-- Asked under the lock of the run, with the rights of that moment: what was taken back meanwhile ends nothing. Of several
-- causes each has a row of its own, so none speaks for another: where the person is disabled or the thread is gone, that
-- nothing can be read there says nothing about a right.
CREATE OR REPLACE FUNCTION livebox.consequence_holds(p_row livebox.pending_consequences, p_run livebox.runs) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_place record;
BEGIN
    IF p_run.finished_at IS NOT NULL THEN
        RETURN false;
    ELSIF p_row.reason IN ('user_disabled', 'agent_disabled') THEN
        RETURN EXISTS (SELECT FROM livebox.principals p
                        WHERE p.status = 'disabled'
                          AND p.id = CASE p_row.reason WHEN 'user_disabled' THEN p_run.triggered_by ELSE p_run.agent_id END);
    ELSIF p_row.reason = 'thread_deleted' THEN
        RETURN EXISTS (SELECT FROM livebox.threads t WHERE t.id = p_run.thread_id AND t.deleted_at IS NOT NULL);
    END IF;
    SELECT * INTO v_place FROM livebox.channel_of(jsonb_build_object('thread_id', p_run.thread_id));
    IF NOT FOUND THEN
        RETURN false;
    ELSIF p_row.reason = 'channel_read_only' THEN
        RETURN v_place.read_only;
    END IF;
    RETURN EXISTS (SELECT FROM livebox.principals p WHERE p.id = p_run.triggered_by AND p.status = 'active')
       AND livebox.authorize(p_run.triggered_by, 'message.read', jsonb_build_object('thread_id', p_run.thread_id)) IS NOT NULL;
END $$;
COMMENT ON FUNCTION livebox.consequence_holds(livebox.pending_consequences, livebox.runs) IS
    'Whether a run that was read under lock is to be ended for the reason of that row now.';
