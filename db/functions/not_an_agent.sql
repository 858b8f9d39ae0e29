CREATE OR REPLACE FUNCTION livebox.not_an_agent(p_id text, p_pointer text) RETURNS livebox.answer LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM livebox.principals p WHERE p.id = p_id::uuid AND p.kind = 'agent') THEN
        RETURN livebox.invalid_member('unknown_reference', p_pointer, 'There is no such agent.');
    END IF;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION livebox.not_an_agent(text, text) IS 'Refuses an id that names no agent, with its place; NULL when it names one.';
