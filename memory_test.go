package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDropStartupPages(t *testing.T) {
	require.NoError(t, dropStartupPages())
	_, err := componentRegistry() // code and constants are there again when they are needed
	require.NoError(t, err)
}
