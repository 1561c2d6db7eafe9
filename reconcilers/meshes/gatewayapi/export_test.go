package gatewayapi

// Empty reports whether there are no changes.
func (c Changes) Empty() bool {
	return c.Create.empty() && c.Update.empty() && c.Delete.empty()
}

func (r Routes) empty() bool { return len(r.HTTP) == 0 && len(r.GRPC) == 0 && len(r.TLS) == 0 }
