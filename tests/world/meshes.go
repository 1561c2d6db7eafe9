package world

// DefineIstio makes the API server serve the kinds of Istio, VirtualServices among them.
func (w *World) DefineIstio() {
	w.Helper()
	w.Must(w.Server.DefineIstio(w.Context()))
}

// DefineGatewayAPI makes the API server serve the routes of the Gateway API, and what they need.
func (w *World) DefineGatewayAPI() {
	w.Helper()
	w.Must(w.Server.DefineGatewayAPI(w.Context()))
}
