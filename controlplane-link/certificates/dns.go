package certificates

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/go-acme/lego/v5/challenge/dns01"
	"github.com/go-acme/lego/v5/lego"
	"github.com/miekg/dns"
	"sigs.k8s.io/yaml"
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
	// changed is when the file was written.
	changed time.Time
}

// updateWithin bounds an update or a query, publishedWithin the time until all nameservers have a record. challengeTTL is that
// of records, in seconds.
const updateWithin, publishedWithin, challengeTTL = 10 * time.Second, 2 * time.Minute, 60

// publishedEvery is the pause before each query for a record. Tests shorten it.
var publishedEvery = time.Second

// readDNS reads the settings in a file.
func readDNS(file string) (*DNS, error) {
	d := &DNS{}
	info, err := os.Stat(file)
	if err == nil {
		d.changed = info.ModTime()
		var text []byte
		if text, err = os.ReadFile(file); err == nil {
			err = yaml.UnmarshalStrict(text, d)
		}
	}
	if err == nil && (d.Nameserver == "" || d.KeyName == "" || d.Secret == "") {
		err = errors.New("write nameserver (the host:port that takes updates of the zone), keyName and secret")
	}
	if err != nil {
		return nil, fmt.Errorf("settings of DNS updates in %s: %w", file, err)
	}
	return d, nil
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

// Timeout is how long the nameservers have to publish a record, and the pause before each query.
func (d *DNS) Timeout() (timeout, interval time.Duration) { return publishedWithin, publishedEvery }

// update changes the record of a challenge. Records of other clients stay.
func (d *DNS) update(ctx context.Context, domain, keyAuth string, change func(*dns.Msg, []dns.RR)) error {
	info := dns01.GetChallengeInfo(ctx, domain, keyAuth)
	zone, err := dns01.DefaultClient().FindZoneByFqdnCustom(ctx, info.EffectiveFQDN, []string{d.Nameserver})
	if err != nil {
		return fmt.Errorf("nameserver %s has no zone for %s: %w", d.Nameserver, info.EffectiveFQDN, err)
	}
	m := new(dns.Msg).SetUpdate(zone)
	change(m, []dns.RR{&dns.TXT{Hdr: dns.RR_Header{Name: info.EffectiveFQDN, Rrtype: dns.TypeTXT, Class: dns.ClassINET, Ttl: challengeTTL}, Txt: []string{info.Value}}})
	key := dns.CanonicalName(d.KeyName)
	m.SetTsig(key, dns.CanonicalName(cmp.Or(d.Algorithm, dns.HmacSHA256)), 300, time.Now().Unix())
	client := dns.Client{Net: "tcp", Timeout: updateWithin, TsigSecret: map[string]string{key: d.Secret}}
	answer, _, err := client.ExchangeContext(ctx, m, d.Nameserver)
	if answer != nil && answer.Rcode != dns.RcodeSuccess { // the signature of a refusal does not matter
		err = errors.New(dns.RcodeToString[answer.Rcode])
	}
	if err != nil {
		return fmt.Errorf("nameserver %s refuses the update of zone %s with TSIG key %s: %w. Check the name, algorithm and secret of the key, and that it may update TXT records of %s",
			d.Nameserver, zone, key, err, info.EffectiveFQDN)
	}
	return nil
}

// solve has a client answer challenges with records. The library has one DNS client for the process: it follows CNAME
// records, and asks each nameserver for the record.
func (d *DNS) solve(client *lego.Client) error {
	dns01.SetDefaultClient(dns01.NewClient(&dns01.Options{RecursiveNameservers: append([]string{d.Nameserver}, d.Secondaries...), Timeout: updateWithin}))
	return client.Challenge.SetDNS01Provider(d, dns01.DisableAuthoritativeNssPropagationRequirement(),
		dns01.WrapPreCheck(func(ctx context.Context, _, name, value string, check dns01.PreCheckFunc) (bool, error) {
			published, err := check(ctx, name, value)
			return published || ctx.Err() != nil, err // the library itself does not end with the context
		}))
}
