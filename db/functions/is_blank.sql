CREATE OR REPLACE FUNCTION livebox.is_blank(p_text text) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT p_text !~ '[^\u0001-\u0020\u007f-\u00a0\u061c\u1680\u2000-\u200f\u2028-\u202f\u205f-\u2069\u3000\ufeff]'
$$;
COMMENT ON FUNCTION livebox.is_blank(text) IS 'Whether a text shows nothing: empty, or only spaces, controls and format characters of Unicode.';
