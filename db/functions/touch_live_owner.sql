CREATE OR REPLACE FUNCTION livebox.touch_live_owner(p_owner text) RETURNS void LANGUAGE sql VOLATILE AS $$
    INSERT INTO livebox.live_owners AS o (owner, seen_at) VALUES (p_owner, livebox.clock())
    ON CONFLICT (owner) DO UPDATE SET seen_at = greatest(o.seen_at, excluded.seen_at)
$$;
COMMENT ON FUNCTION livebox.touch_live_owner(text) IS 'Says that a process which serves live documents is there.';
