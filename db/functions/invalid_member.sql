CREATE OR REPLACE FUNCTION livebox.invalid_member(p_code text, p_pointer text, p_message text) RETURNS livebox.answer
LANGUAGE sql STABLE AS $$
    SELECT livebox.refused('validation_failed', jsonb_build_object('errors', jsonb_build_array(
        jsonb_build_object('code', p_code, 'pointer', p_pointer, 'message', p_message))))
$$;
COMMENT ON FUNCTION livebox.invalid_member(text, text, text) IS 'Refuses a request for one member of its body that only the database could judge.';
