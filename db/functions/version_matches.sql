-- If-Match of RFC 9110, section 13.1.1: any of a list, * for whatever is there, weak tags never.
CREATE OR REPLACE FUNCTION livebox.version_matches(p_args jsonb, p_version bigint) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT NOT p_args ? 'if_match'
        OR btrim(p_args->>'if_match') = '*'
        OR EXISTS (SELECT FROM regexp_matches(p_args->>'if_match', '(W/)?"([^"]*)"', 'g') AS tag
                    WHERE tag[1] IS NULL AND tag[2] = p_version::text)
$$;
COMMENT ON FUNCTION livebox.version_matches(jsonb, bigint) IS 'Whether the If-Match of a request, when it has one, names this version.';
