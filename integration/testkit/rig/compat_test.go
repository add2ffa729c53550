package rig

import "testing"

// TestNeed32Bit: the program that is tried is one.
func TestNeed32Bit(t *testing.T) { Need32Bit(t) }
