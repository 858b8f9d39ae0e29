CREATE OR REPLACE FUNCTION livebox.event_without_deleted(p_event livebox.events) RETURNS livebox.events
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF p_event.resource_kind = 'message' AND p_event.payload #> '{message,body}' IS NOT NULL
       AND EXISTS (SELECT FROM livebox.messages m WHERE m.id = p_event.resource_id::uuid AND m.deleted_at IS NOT NULL) THEN
        p_event.payload := p_event.payload #- '{message,body}' #- '{message,truncated}' #- '{message,mentions}';
    END IF;
    RETURN p_event;
END $$;
COMMENT ON FUNCTION livebox.event_without_deleted(livebox.events) IS
    'An event without the text of a message that was deleted since: the log keeps what was written, nobody is shown it any more.';
