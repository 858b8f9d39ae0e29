-- A process that wakes after a long sleep may look at runs before anybody has said that the service is back. Until then
-- the service counts as away, so that no deadline passes in between.
CREATE OR REPLACE FUNCTION livebox.service_since(p_now timestamptz, p_limits jsonb) RETURNS timestamptz
LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN s.touched_at + make_interval(secs => (p_limits->>'service.gap')::double precision) < p_now
                THEN p_now ELSE s.available_since END
      FROM livebox.service s
$$;
COMMENT ON FUNCTION livebox.service_since(timestamptz, jsonb) IS
    'Since when agents could reach the service; no deadline counts from before. It is p_now while nobody has touched the service for service.gap. Needs the limit service.gap.';
