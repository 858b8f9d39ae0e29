-- Below a run that the principal may not read nothing is looked for: what hangs there is not theirs to count.
CREATE OR REPLACE FUNCTION livebox.run_tree(p_principal uuid, p_run uuid, p_most bigint) RETURNS TABLE (run_id uuid)
LANGUAGE sql STABLE AS $$
    WITH RECURSIVE tree AS (
        SELECT p_run AS id
        UNION ALL
        SELECT r.id FROM tree JOIN livebox.runs r ON r.parent_run_id = tree.id
         WHERE livebox.authorize(p_principal, 'run.read', jsonb_build_object('run_id', r.id)) IS NULL)
    SELECT tree.id FROM tree LIMIT p_most
$$;
COMMENT ON FUNCTION livebox.run_tree(uuid, uuid, bigint) IS
    'A run and the runs registered below it that a principal may read, nearest first, at most p_most. The run itself is not asked for.';
