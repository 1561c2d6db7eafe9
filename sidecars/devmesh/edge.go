package devmesh

import (
	_ "embed" // the script

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	luav3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/lua/v3"
)

// edgeFilter takes routing keys out of baggage and tracestate. An edge has it in place of
// the filters that read keys, so that no request is routed by one whatever the script does.
// Custom headers are taken out by the routes, which know them (translate.Head.AtEdge).
const edgeFilter = "signadot.com/edge"

//go:embed edge.lua
var edgeScript string

// dropKeys is a script because nothing else of Envoy takes one entry out of a list and
// leaves the others: see tools/adr/0035.
func dropKeys() *luav3.Lua {
	return &luav3.Lua{DefaultSourceCode: &corev3.DataSource{
		Specifier: &corev3.DataSource_InlineString{InlineString: edgeScript},
	}}
}
