CREATE OR REPLACE FUNCTION livebox.note_consequence(p_reason text, p_by uuid, p_scope jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    INSERT INTO livebox.pending_consequences (reason, created_by, principal_id, space_id, channel_id, thread_id)
    VALUES (p_reason, p_by, (p_scope->>'principal_id')::uuid, (p_scope->>'space_id')::uuid,
            (p_scope->>'channel_id')::uuid, (p_scope->>'thread_id')::uuid);
    RETURN '[{"kind": "consequence"}]';
END $$;
COMMENT ON FUNCTION livebox.note_consequence(text, uuid, jsonb) IS
    'Notes in the transaction of a change that runs are to be ended with a reason: those of p_scope (principal_id, space_id, channel_id, thread_id) of which it is still true when their turn comes. Gives the effect by which the server begins at once.';
