-- Moves the address of a fork from the header that the route has set into the request's
-- metadata. The header would reach the fork; the metadata lasts for all tries of a request.
function envoy_on_request(handle)
  local headers = handle:headers()
  local address = headers:get("HEADER")
  if address then
    headers:remove("HEADER")
    handle:streamInfo():dynamicMetadata():set("NAMESPACE", "KEY", address)
  end
end
