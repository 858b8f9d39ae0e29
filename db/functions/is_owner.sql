CREATE OR REPLACE FUNCTION livebox.is_owner(p_principal uuid) RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT EXISTS (SELECT FROM livebox.principals p WHERE p.id = p_principal AND p.role = 'owner' AND p.status = 'active')
$$;
COMMENT ON FUNCTION livebox.is_owner(uuid) IS 'Whether the principal is an active owner of the instance.';
