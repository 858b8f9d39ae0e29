-- A parent that is hidden and one that is not there are told alike.
CREATE OR REPLACE FUNCTION livebox.unfit_registration(p_me uuid, p_body jsonb) RETURNS livebox.answer LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_parent text := p_body->>'parent_run_id';
    v_errors jsonb;
BEGIN
    SELECT jsonb_agg(jsonb_build_object('code', 'unknown_reference', 'pointer', named.pointer, 'message', 'There is no such agent.')
                     ORDER BY named.pointer)
      INTO v_errors
      FROM (SELECT p_body->>'agent_id' AS id, '/agent_id' AS pointer
             UNION ALL
            SELECT a, '/agents/' || (n - 1) FROM jsonb_array_elements_text(p_body->'agents') WITH ORDINALITY AS l(a, n)) AS named
     WHERE NOT EXISTS (SELECT FROM livebox.principals p WHERE p.id = named.id::uuid AND p.kind = 'agent');
    IF v_errors IS NOT NULL THEN
        RETURN livebox.refused('validation_failed', jsonb_build_object('errors', v_errors));
    ELSIF NOT EXISTS (SELECT FROM livebox.principals p WHERE p.id = (p_body->>'agent_id')::uuid AND p.status = 'active') THEN
        RETURN livebox.invalid_member('not_allowed_value', '/agent_id', 'This agent is disabled.');
    ELSIF v_parent IS NOT NULL
          AND livebox.authorize(p_me, 'run.read', jsonb_build_object('run_id', v_parent)) IS NOT NULL THEN
        RETURN livebox.invalid_member('unknown_reference', '/parent_run_id', 'There is no such run.');
    ELSIF EXISTS (SELECT FROM livebox.runs r WHERE r.external_id = p_body->>'external_id') THEN
        RETURN livebox.refused('external_id_taken');
    END IF;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION livebox.unfit_registration(uuid, jsonb) IS
    'Refuses a registration for what only the database can judge: agents, parent, external id; NULL when it fits.';
