package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDropPages(t *testing.T) {
	own, err := ownPages()
	require.NoError(t, err)
	require.NotEmpty(t, own)
	require.NoError(t, dropPages(own))
	_, err = componentRegistry() // code and constants are there again when they are needed
	require.NoError(t, err)
}
