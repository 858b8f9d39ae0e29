CREATE OR REPLACE FUNCTION livebox.run_versions(p_ids uuid[]) RETURNS TABLE (run_id text, version bigint, epoch bigint, jti text)
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT r.id::text, r.version, r.live_epoch, concat(r.invocation_jti, r.renewed_from_jti)
      FROM livebox.runs r WHERE r.id = ANY (p_ids)
$$;
COMMENT ON FUNCTION livebox.run_versions(uuid[]) IS
    'Where runs are, to find those that moved without a word having come: for the process itself, without rights.';
