package source

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFolderOfURL(t *testing.T) {
	url := "https://me:s3cret@host:8080/a/b/lib.river?token=s3cret#x"
	c := &Content{kind: "http", args: struct{ URL string }{url}}
	require.Equal(t, "https://host:8080/a/b", c.Folder())
}
