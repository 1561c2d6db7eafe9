package model

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"time"
)

// Role is what a principal may do in its organisation.
type Role string

// Roles. A member uses sandboxes, route groups, resource plugins, secrets and devboxes; an admin
// also clusters, their tokens, service accounts, and the API keys of others.
const (
	RoleAdmin  Role = "admin"
	RoleMember Role = "member"
)

// Kind is a kind of principal.
type Kind string

// Kinds of principals.
const (
	KindUser           Kind = "user"
	KindServiceAccount Kind = "serviceAccount"
	KindCluster        Kind = "cluster"
	// KindSystem is the control plane itself.
	KindSystem Kind = "system"
)

// Method is how a client showed who it is.
type Method string

// Methods of authentication.
const (
	MethodAPIKey       Method = "apiKey"
	MethodBearer       Method = "bearer"
	MethodClusterToken Method = "clusterToken"
	// MethodInternal is that of KindSystem.
	MethodInternal Method = "internal"
)

// Organisation owns all other objects.
type Organisation struct {
	// Name is unique in the installation, and part of the path of each request.
	Name        string
	DisplayName string
	CreatedAt   time.Time
}

// User is a person in an organisation.
type User struct {
	Org string
	// ID is unique in the installation.
	ID string
	// Subject is the issuer and subject of the login; empty for a user that has only API keys.
	Subject              string
	Email                string
	FirstName, LastName  string
	Avatar               string
	Role                 Role
	CreatedAt, UpdatedAt time.Time
}

// ServiceAccount is a principal for programs.
type ServiceAccount struct {
	Org, Name            string
	Description          string
	Role                 Role
	CreatedAt, UpdatedAt time.Time
}

// Principal is the author of a request.
type Principal struct {
	Kind Kind `json:"kind"`
	// ID is that of a user; the name of a service account or cluster.
	ID string `json:"id"`
	// Name is for people: the address of a user.
	Name string `json:"name"`
}

// Author is the principal that has last written or deleted an object. Its rights in the cluster count.
type Author struct {
	Principal
	// Role is its role at that time.
	Role Role `json:"role"`
}

// Outranks reports whether the author has more rights than another one: the control plane has more than an administrator, and
// an administrator more than a member.
func (a Author) Outranks(other Author) bool { return a.rank() > other.rank() }

func (a Author) rank() int {
	switch {
	case a.Kind == KindSystem:
		return 2
	case a.Role == RoleAdmin:
		return 1
	}
	return 0
}

// Caller is an authenticated client.
type Caller struct {
	Org       string
	Principal Principal
	Role      Role
	Method    Method
	// KeyID and Masked are those of the API key or cluster token; empty with a bearer token.
	KeyID, Masked string
}

// Author returns the caller as the author of an object.
func (c Caller) Author() Author { return Author{c.Principal, c.Role} }

// Caller returns the user as the client with a bearer token.
func (u User) Caller() Caller {
	return Caller{Org: u.Org, Principal: Principal{Kind: KindUser, ID: u.ID, Name: u.Email}, Role: u.Role, Method: MethodBearer}
}

// Digest is the SHA-256 of a secret. Secrets are the text of at least 32 random bytes, so the
// digest needs no salt.
type Digest [sha256.Size]byte

// DigestOf returns the digest of a secret.
func DigestOf(secret string) Digest { return sha256.Sum256([]byte(secret)) }

// APIKey is a credential of a user or a service account.
type APIKey struct {
	Org, ID string
	// Owner is KindUser or KindServiceAccount, with its ID.
	Owner       Principal
	Description string
	// Masked is the beginning of the key, for people.
	Masked    string
	Digest    Digest
	CreatedAt time.Time
	// LastUsedAt is zero for a key that was never used. It may be some minutes old.
	LastUsedAt time.Time
}

// ClusterToken is the credential of a cluster's agent.
type ClusterToken struct {
	Org, Cluster, ID string
	// Masked is the beginning of the token, for people.
	Masked    string
	Digest    Digest
	CreatedAt time.Time
	// LastConnectedAt is zero, and LastConnectedIP empty, before the agent has connected with it.
	LastConnectedAt time.Time
	LastConnectedIP string
}

// DeviceLogin is a login of a device without a browser, from its code to its token.
type DeviceLogin struct {
	// Device is the digest of the device code, UserCode the code that a person types.
	Device    Digest
	UserCode  string
	CreatedAt time.Time
	ExpiresAt time.Time
	// Address is that from which it was begun; empty: it is not known, as behind a proxy. Preview is the host of the embedded
	// preview that has begun it; empty: a device has.
	Address, Preview string
	// PolledAt is the time of the last request for its token.
	PolledAt time.Time
	// Org and UserID are the user that has accepted the login; empty while it is pending.
	Org, UserID string
	// Session is the session of the page with which that user has decided.
	Session Digest
	// Denied: a person has refused the login.
	Denied bool
}

// Session is a bearer token, and the refresh token that replaces it.
type Session struct {
	Org, UserID string
	// Access and Refresh are the digests of the tokens.
	Access, Refresh Digest
	CreatedAt       time.Time
	// ExpiresAt ends the bearer token, RefreshBy the refresh token.
	ExpiresAt, RefreshBy time.Time
}

// Event is an entry of the audit trail.
type Event struct {
	Org, ID string
	// Type is the object and the verb, such as sandbox.apply.
	Type string
	At   time.Time
	By   Principal
	// Role is that of By; the trail does not keep it.
	Role   Role
	Method Method
	Masked string
	// Data is an object in JSON without secrets, such as the name and specification of the object.
	Data json.RawMessage
}

// EventQuery selects entries of the audit trail, the newest first. Zero fields select all.
type EventQuery struct {
	// From is inclusive, To is exclusive.
	From, To time.Time
	Types    []string
	// Kind, PrincipalID and Method are those of the author.
	Kind        Kind
	PrincipalID string
	Method      Method
	// Limit is the maximum number of entries, at least 1.
	Limit int
}

// Errors about the state of an object. A store wraps them; callers use errors.Is.
var (
	// ErrNotFound: no such object in the organisation.
	ErrNotFound = errors.New("not found")
	// ErrExists: the name is taken, by an object of this kind or by one that shares names with it
	// (a sandbox and a route group).
	ErrExists = errors.New("already exists")
	// ErrInUse: other objects refer to the object.
	ErrInUse = errors.New("in use")
	// ErrKeyTaken: the routing key of a new object is or was that of another object. The caller
	// proposes another key.
	ErrKeyTaken = errors.New("routing key is taken")
	// ErrMoved: the write would change a field that cannot change, such as the cluster of a
	// sandbox that is not deleted yet.
	ErrMoved = errors.New("the cluster cannot be changed")
	// ErrDeleting: the object is being deleted; the name is free when its deletion has ended.
	ErrDeleting = errors.New("is being deleted")
	// ErrHeld: another session has the object, as with a devbox that is claimed.
	ErrHeld = errors.New("is in use by another session")
	// ErrTooMany: there are as many objects of the kind as there can be (maxima.go).
	ErrTooMany = errors.New("too many")
	// ErrText: a text is no UTF-8, or has a NUL character, which no store can keep.
	ErrText = errors.New("a text is not valid UTF-8, or has a NUL character")
	// ErrUnreachable: the cluster cannot be read now, because its agent is not connected.
	ErrUnreachable = errors.New("is not connected")
	// ErrRefused: the cluster has refused a read with the rights that a user has there.
	ErrRefused = errors.New("the read is refused")
)
