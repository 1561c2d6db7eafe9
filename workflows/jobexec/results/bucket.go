package results

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// S3 names a bucket of S3, or of a server with the same API.
type S3 struct {
	// Bucket is the name of a bucket that exists. Empty: none.
	Bucket string
	// Endpoint is the URL of the server, without a path. Default: that of Amazon.
	Endpoint string
	// Region is that of the bucket. Default: the server is asked.
	Region string
}

const (
	// defaultEndpoint is that of Amazon.
	defaultEndpoint = "https://s3.amazonaws.com"
	// partBytes is the memory that an upload takes; a file has at most 10,000 parts.
	partBytes = 16 << 20
	// attempts is how often a request is sent before it has failed.
	attempts = 4
	// authorityEnv names the variable with certificates that sign that of the server, in PEM. Default: those of public authorities.
	authorityEnv = "S3_CA"
)

// bucket is a Backend in a bucket.
type bucket struct {
	client *minio.Client
	name   string
}

// openBucket returns a Backend in a bucket. Credentials are those of the environment (AWS_ACCESS_KEY_ID and
// AWS_SECRET_ACCESS_KEY), or of the account or node that the process runs with at Amazon. Nothing is requested yet.
//
// A private authority of the server is in the environment too (authorityEnv).
func openBucket(s S3) (*bucket, error) {
	at, err := url.Parse(cmp.Or(s.Endpoint, defaultEndpoint))
	if err != nil || at.Scheme != "https" && at.Scheme != "http" || at.Host == "" || at.Path != "" && at.Path != "/" {
		return nil, fmt.Errorf("the endpoint of S3 is %q: give a URL without a path, such as %s", s.Endpoint, defaultEndpoint)
	}
	secure := at.Scheme == "https"
	transport, err := minio.DefaultTransport(secure)
	if err != nil {
		return nil, err
	}
	if text := os.Getenv(authorityEnv); text != "" && secure {
		transport.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !transport.TLSClientConfig.RootCAs.AppendCertsFromPEM([]byte(text)) {
			return nil, fmt.Errorf("%s has no certificate in PEM: correct ca.crt in the Secret of the bucket", authorityEnv)
		}
	}
	client, err := minio.New(at.Host, &minio.Options{
		Creds:  credentials.NewChainCredentials([]credentials.Provider{&credentials.EnvAWS{}, &credentials.IAM{}}),
		Secure: secure, Region: s.Region, MaxRetries: attempts, Transport: transport,
	})
	if err != nil {
		return nil, fmt.Errorf("the bucket %q at %s: %w", s.Bucket, at, err)
	}
	return &bucket{client, s.Bucket}, nil
}

// Put implements Backend.
func (b *bucket) Put(ctx context.Context, key string, from io.Reader) error {
	_, err := b.client.PutObject(ctx, b.name, key, from, -1, minio.PutObjectOptions{PartSize: partBytes})
	return b.failed("write", key, err)
}

// Open implements Backend.
func (b *bucket) Open(ctx context.Context, key string) (io.ReadSeekCloser, error) {
	object, err := b.client.GetObject(ctx, b.name, key, minio.GetObjectOptions{})
	if err != nil {
		return nil, b.failed("open", key, err)
	}
	if _, err := object.Stat(); err != nil {
		return nil, errors.Join(b.failed("open", key, err), object.Close())
	}
	return object, nil
}

// Delete implements Backend.
func (b *bucket) Delete(ctx context.Context, folder string) error {
	for object := range b.client.ListObjectsIter(ctx, b.name, minio.ListObjectsOptions{Prefix: folder + "/", Recursive: true}) {
		err := object.Err
		if err == nil {
			err = b.client.RemoveObject(ctx, b.name, object.Key, minio.RemoveObjectOptions{})
		}
		if err != nil {
			return b.failed("delete", folder, err)
		}
	}
	return b.failed("delete", folder, ctx.Err())
}

// failed returns an error with its object; fs.ErrNotExist is one for an object that does not exist.
func (b *bucket) failed(what, key string, err error) error {
	switch of := minio.ToErrorResponse(err); {
	case err == nil:
		return nil
	case of.Code == minio.NoSuchKey, of.StatusCode == http.StatusNotFound && of.Code != minio.NoSuchBucket:
		err = fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	return fmt.Errorf("%s %s in bucket %s: %w", what, key, b.name, err)
}
