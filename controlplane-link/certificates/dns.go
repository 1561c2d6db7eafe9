package certificates

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-acme/lego/v5/challenge/dns01"
	"github.com/miekg/dns"
)

// DNS writes the TXT records of challenges by RFC 2136 updates with TSIG. Its fields are those of the file of settings,
// in YAML. It implements challenge.ProviderTimeout.
type DNS struct {
	// Nameserver takes the updates, at host:port. It knows the zone, and CNAME records of _acme-challenge names.
	Nameserver string
	// Secondaries are other nameservers, also host:port, which have to have a record before the server is asked to read it.
	Secondaries []string
	// KeyName, Algorithm (default: hmac-sha256) and Secret (base64) are those of the TSIG key.
	KeyName, Algorithm, Secret string
}

const (
	// updateWithin bounds an update or a query.
	updateWithin = 10 * time.Second
	// publishedWithin is how long the nameservers have to publish a record.
	publishedWithin = 2 * time.Minute
	// challengeTTL is that of the records, in seconds.
	challengeTTL = 60
)

// publishedEvery is the pause before each query for a record. Tests shorten it.
var publishedEvery = time.Second

// check sets defaults, and returns an error if the settings are not valid.
func (d *DNS) check() error {
	d.Algorithm, d.KeyName = dns.CanonicalName(cmp.Or(d.Algorithm, dns.HmacSHA256)), dns.CanonicalName(d.KeyName)
	secret, err := base64.StdEncoding.DecodeString(d.Secret)
	switch {
	case d.Nameserver == "":
		return errors.New("nameserver is missing: write the host:port that takes updates of the zone")
	case d.KeyName == ".", err != nil, len(secret) == 0:
		return errors.New("keyName is missing, or secret is not base64: write both of the TSIG key")
	}
	return nil
}

// Present adds a record.
func (d *DNS) Present(ctx context.Context, domain, _, keyAuth string) error {
	return d.update(ctx, domain, keyAuth, (*dns.Msg).Insert)
}

// CleanUp deletes it, after an order that was interrupted too.
func (d *DNS) CleanUp(ctx context.Context, domain, _, keyAuth string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), updateWithin)
	defer cancel()
	return d.update(ctx, domain, keyAuth, (*dns.Msg).Remove)
}

// refusal is an error of an update. The library wraps it in texts of its own.
type refusal struct{ error }

// Timeout is how long published is called, and the pause in between.
func (d *DNS) Timeout() (timeout, interval time.Duration) { return publishedWithin, publishedEvery }

// update changes the record of a challenge. Records of other clients stay.
func (d *DNS) update(ctx context.Context, domain, keyAuth string, change func(*dns.Msg, []dns.RR)) error {
	info := dns01.GetChallengeInfo(ctx, domain, keyAuth)
	zone, err := dns01.DefaultClient().FindZoneByFqdnCustom(ctx, info.EffectiveFQDN, []string{d.Nameserver})
	if err != nil {
		return refusal{fmt.Errorf("nameserver %s has no zone for %s: %w", d.Nameserver, info.EffectiveFQDN, err)}
	}
	m := new(dns.Msg).SetUpdate(zone)
	change(m, []dns.RR{&dns.TXT{Hdr: dns.RR_Header{Name: info.EffectiveFQDN, Rrtype: dns.TypeTXT, Class: dns.ClassINET, Ttl: challengeTTL}, Txt: []string{info.Value}}})
	m.SetTsig(d.KeyName, d.Algorithm, 300, time.Now().Unix())
	client := dns.Client{Net: "tcp", Timeout: updateWithin, TsigSecret: map[string]string{d.KeyName: d.Secret}}
	answer, _, err := client.ExchangeContext(ctx, m, d.Nameserver)
	if answer != nil && answer.Rcode != dns.RcodeSuccess { // the signature of a refusal does not matter
		err = errors.New(dns.RcodeToString[answer.Rcode])
	}
	if err != nil {
		return refusal{fmt.Errorf("nameserver %s refuses the update of zone %s with TSIG key %s: %w. Check the name, algorithm and secret of the key, and that it may update TXT records of %s",
			d.Nameserver, zone, d.KeyName, err, info.EffectiveFQDN)}
	}
	return nil
}

// published reports whether all nameservers have a record. It implements dns01.WrapPreCheckFunc.
func (d *DNS) published(ctx context.Context, _, name, value string, _ dns01.PreCheckFunc) (bool, error) {
	client := dns.Client{Net: "tcp", Timeout: updateWithin}
	for _, server := range append([]string{d.Nameserver}, d.Secondaries...) {
		answer, _, err := client.ExchangeContext(ctx, new(dns.Msg).SetQuestion(name, dns.TypeTXT), server)
		if ctx.Err() != nil {
			return true, ctx.Err()
		}
		if err != nil {
			return false, fmt.Errorf("nameserver %s does not answer: %w", server, err)
		}
		if !slices.ContainsFunc(answer.Answer, func(r dns.RR) bool {
			txt, is := r.(*dns.TXT)
			return is && strings.Join(txt.Txt, "") == value
		}) {
			return false, fmt.Errorf("nameserver %s does not have the record %s yet", server, name)
		}
	}
	return true, nil
}
