package config

import (
	"bytes"
	"regexp"
)

// urlPassword finds the password of a URL (RFC 3986, section 3.2.1) in text. In JSON some
// characters are written as \u00XX.
var urlPassword = regexp.MustCompile(
	`([A-Za-z][A-Za-z0-9+.-]*://(?:[^\s/?#"@:\\]|\\u00[0-9a-fA-F]{2})*:)(?:[^\s/?#"\\]|\\u00[0-9a-fA-F]{2})+@`)

// HidePasswords returns text, which may be JSON, with "xxxxx" in the place of every password in a URL, like
// url.URL.Redacted. It returns text without passwords unchanged.
func HidePasswords(text []byte) []byte {
	if !bytes.Contains(text, []byte("://")) || !bytes.ContainsRune(text, '@') {
		return text
	}
	return urlPassword.ReplaceAll(text, []byte("${1}xxxxx@"))
}
