CREATE OR REPLACE FUNCTION livebox.next_thread_seq(p_thread uuid) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_seq bigint;
BEGIN
    UPDATE livebox.threads SET last_thread_seq = last_thread_seq + 1 WHERE id = p_thread RETURNING last_thread_seq INTO v_seq;
    IF v_seq IS NULL THEN
        RAISE EXCEPTION 'no such thread' USING ERRCODE = 'LB006';
    END IF;
    RETURN v_seq;
END $$;
COMMENT ON FUNCTION livebox.next_thread_seq(uuid) IS 'Takes the next event number of a thread.';
