CREATE OR REPLACE FUNCTION livebox.unknown_principals(p_ids jsonb, p_pointer text) RETURNS livebox.answer
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_errors jsonb;
BEGIN
    SELECT jsonb_agg(jsonb_build_object('code', 'unknown_reference', 'pointer', p_pointer || '/' || (i.n - 1),
                                        'message', 'There is no such principal.'))
      INTO v_errors
      FROM jsonb_array_elements_text(coalesce(p_ids, '[]')) WITH ORDINALITY AS i(id, n)
     WHERE NOT EXISTS (SELECT FROM livebox.principals p WHERE p.id = i.id::uuid);
    RETURN CASE WHEN v_errors IS NOT NULL THEN livebox.refused('validation_failed', jsonb_build_object('errors', v_errors)) END;
END $$;
COMMENT ON FUNCTION livebox.unknown_principals(jsonb, text) IS
    'Refuses a list of principals for those that are not in the directory, each with its place; NULL when all are.';
