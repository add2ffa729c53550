// Package git is the component remote.git: it reads one file of a Git repository, and reads it again when the
// repository changes. The runtime's import.git and module.git blocks use it.
//
// It runs the git program. A Git library in the binary would add megabytes for a block that few configurations have,
// and a machine that pulls its configuration from Git already has the program, including its proxy settings and
// protocols.
package git

import (
	"net/url"
	"strings"
	"time"

	"github.com/grafana/river/rivertypes"

	"github.com/headwater/headwater/component"
)

// Arguments configure remote.git.
type Arguments struct {
	Repository    string        `river:"repository,attr"`
	Revision      string        `river:"revision,attr,optional"` // a tag, a branch, or anything that git rev-parse knows
	Path          string        `river:"path,attr"`              // of the file, in the repository
	PullFrequency time.Duration `river:"pull_frequency,attr,optional"`
	BasicAuth     *BasicAuth    `river:"basic_auth,block,optional"`
	SSHKey        *SSHKey       `river:"ssh_key,block,optional"`
}

// BasicAuth are credentials for repositories over HTTP.
type BasicAuth struct {
	Username string            `river:"username,attr"`
	Password rivertypes.Secret `river:"password,attr"`
}

// SSHKey is a key for SSH authentication. SSH must already know the server's key.
type SSHKey struct {
	Username   string            `river:"username,attr"`
	Key        rivertypes.Secret `river:"key,attr,optional"`
	KeyFile    string            `river:"key_file,attr,optional"`
	Passphrase rivertypes.Secret `river:"passphrase,attr,optional"`
}

// Exports holds the content of the file.
type Exports struct {
	Content rivertypes.OptionalSecret `river:"content,attr"`
}

// SetToDefault implements river.Defaulter.
func (a *Arguments) SetToDefault() {
	*a = Arguments{Revision: "HEAD", PullFrequency: time.Minute}
}

// Validate implements river.Validator. It moves a password from the repository's URL to BasicAuth, which is displayed
// as a secret.
func (a *Arguments) Validate() error {
	switch {
	case a.Repository == "" || strings.HasPrefix(a.Repository, "-"):
		return component.Refuse("repository", "must be the URL or path of a repository")
	case a.misspelt():
		return component.Refuse("repository",
			"must be a valid URL: write %%25 for %%, %%2F for / and %%40 for @ in its user name and password")
	case a.hasPassword() && !a.overHTTP():
		return component.Refuse("repository", "must start with http:// or https:// for a password in it; use ssh_key for SSH")
	case a.Path == "":
		return component.Refuse("path", "must be the path of a file in the repository")
	case a.Revision == "" || strings.HasPrefix(a.Revision, "-"):
		return component.Refuse("revision", "must be a tag, a branch or a commit")
	case a.PullFrequency < 0:
		return component.Refuse("pull_frequency", "must not be negative; 0s means never")
	case a.BasicAuth != nil && a.SSHKey != nil:
		return component.Refuse("repository", "cannot be read with both basic_auth and ssh_key")
	case a.BasicAuth != nil && !a.overHTTP():
		return component.Refuse("repository", "must start with http:// or https:// for basic_auth")
	case a.SSHKey != nil && (a.SSHKey.Key == "") == (a.SSHKey.KeyFile == ""):
		return component.Refuse("repository", "needs either key or key_file in the ssh_key block")
	}
	a.separateCredentials()
	return nil
}

// misspelt reports whether the repository looks like a URL but cannot be parsed, so that the end of a password in it is
// unknown.
func (a *Arguments) misspelt() bool {
	_, err := url.Parse(a.Repository)
	return err != nil && strings.Contains(a.Repository, "://")
}

func (a *Arguments) hasPassword() bool {
	u, err := url.Parse(a.Repository)
	if err != nil || u.User == nil {
		return false
	}
	_, ok := u.User.Password()
	return ok
}

// separateCredentials moves a user name and password from an HTTP URL to BasicAuth, unless BasicAuth is set: URLs
// appear in errors, in the web interface, and, as arguments of git, to all users of this host.
func (a *Arguments) separateCredentials() {
	u, err := url.Parse(a.Repository)
	if err != nil || u.User == nil || !a.overHTTP() {
		return
	}
	if a.BasicAuth == nil {
		password, _ := u.User.Password()
		a.BasicAuth = &BasicAuth{Username: u.User.Username(), Password: rivertypes.Secret(password)}
	}
	u.User = nil
	a.Repository = u.String()
}

func (a *Arguments) overHTTP() bool {
	u, err := url.Parse(a.Repository)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https")
}
