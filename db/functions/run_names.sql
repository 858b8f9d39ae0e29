-- One expression, so that it is inlined: lists ask it of very many runs before they ask authorize of those that are left.
CREATE OR REPLACE FUNCTION livebox.run_names(p_run livebox.runs, p_principal uuid) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT p_run.thread_id IS NULL
       AND coalesce(p_run.registered_by = p_principal OR p_run.agent_id = p_principal OR p_principal = ANY (p_run.agents)
                    OR p_run.user_dims->>'user_id' = p_principal::text, false)
$$;
COMMENT ON FUNCTION livebox.run_names(livebox.runs, uuid) IS
    'Whether a run without a thread names a principal: as its registrar, an agent or its person. What lists look for before authorize decides on each.';
