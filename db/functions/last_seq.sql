CREATE OR REPLACE FUNCTION livebox.last_seq() RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT greatest((SELECT s.floor FROM livebox.log_state s), (SELECT max(e.seq) FROM livebox.events e))
$$;
COMMENT ON FUNCTION livebox.last_seq() IS
    'The newest seq that the statement sees. Since numbers are given under the log lock, it sees every event up to it.';
