package translate

import (
	"slices"

	headertometadatav3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/header_to_metadata/v3"
	envoymatcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"switchyard.dev/xds/routingkey"
)

const (
	// KeyFilter is the name of the proxy's filter that takes the routing key out of
	// a request. The virtual host replaces its configuration when custom headers
	// carry keys, so that the proxy follows the list without a new listener.
	KeyFilter = "envoy.filters.http.header_to_metadata"
	// KeyName is where KeyFilter puts the key, within MetadataNamespace.
	KeyName = "key"
)

// KeyExtraction returns the configuration of KeyFilter for the custom headers that
// carry keys, first in precedence first. A later rule that finds a key overwrites
// what an earlier one found, so the first in precedence stands last; a rule that
// finds none writes nothing.
func KeyExtraction(custom []string) *headertometadatav3.Config {
	return extractionBy(custom, func(e routingkey.Extraction) string { return e.Pattern })
}

// sentExtraction means what KeyExtraction does, with expressions that sidecars of all
// releases take. Today's read no more of it than the names of headers.
func sentExtraction(custom []string) *headertometadatav3.Config {
	return extractionBy(custom, func(e routingkey.Extraction) string { return e.Short })
}

func extractionBy(custom []string, pattern func(routingkey.Extraction) string) *headertometadatav3.Config {
	config := &headertometadatav3.Config{}
	for _, e := range slices.Backward(routingkey.Extractions(custom)) {
		config.RequestRules = append(config.RequestRules, &headertometadatav3.Config_Rule{
			Header: e.Header,
			OnHeaderPresent: &headertometadatav3.Config_KeyValuePair{
				MetadataNamespace: MetadataNamespace,
				Key:               KeyName,
				Type:              headertometadatav3.Config_STRING,
				RegexValueRewrite: &envoymatcherv3.RegexMatchAndSubstitute{
					Pattern:      &envoymatcherv3.RegexMatcher{Regex: pattern(e)},
					Substitution: e.Substitution,
				},
			},
		})
	}
	return config
}

// perHost returns what a virtual host changes of the proxy's filters. Without
// custom headers that is nothing: the proxy's own configuration reads baggage and
// tracestate.
func perHost(custom []string, extraction func(custom []string) *headertometadatav3.Config) (map[string]*anypb.Any, error) {
	if len(custom) == 0 {
		return nil, nil
	}
	config, err := packed(extraction(custom))
	if err != nil {
		return nil, err
	}
	return map[string]*anypb.Any{KeyFilter: config}, nil
}
