package world

// DefineIstio makes the API server serve the kinds of Istio, VirtualServices among them.
func (w *World) DefineIstio() {
	w.Helper()
	w.Must(w.Server.DefineIstio(w.Context()))
}

// DefineGatewayAPI installs the definitions of the Gateway API's routes and their dependencies.
func (w *World) DefineGatewayAPI() {
	w.Helper()
	w.Must(w.Server.DefineGatewayAPI(w.Context()))
}
