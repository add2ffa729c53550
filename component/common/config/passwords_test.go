package config

import (
	"encoding/json"
	"net/url"
	"testing"
)

func TestHidePasswords(t *testing.T) {
	for text, want := range map[string]string{
		"":                                    "",
		"me@example.org":                      "me@example.org",
		"http://host:4040/a@b":                "http://host:4040/a@b",
		"http://me@host/":                     "http://me@host/",
		"http://me:@host/":                    "http://me:@host/",
		"http://me:p%40ss@host/x?a=b@c":       "http://me:xxxxx@host/x?a=b@c",
		"ask tcp://:se:cr@et@h:1: no":         "ask tcp://:xxxxx@h:1: no",
		"https://a:1@h,https://b:2@i http://": "https://a:xxxxx@h,https://b:xxxxx@i http://",
	} {
		if got := string(HidePasswords([]byte(text))); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// FuzzHidePasswords: the shown form of a URL, plain and in JSON, does not depend on its password.
func FuzzHidePasswords(f *testing.F) {
	f.Add("me", "secret")
	f.Add("", `"<&>\`)
	f.Fuzz(func(t *testing.T, user, password string) {
		if password == "" {
			return
		}
		shown := func(password string) string {
			u := url.URL{Scheme: "https", Host: "h:1", User: url.UserPassword(user, password), Path: "/x"}
			text, err := json.Marshal([]string{u.String()})
			if err != nil {
				t.Fatal(err)
			}
			return string(HidePasswords([]byte(u.String()))) + string(HidePasswords(text))
		}
		if got, want := shown(password), shown("other"); got != want {
			t.Errorf("%q:%q is shown as %s, want %s", user, password, got, want)
		}
	})
}
