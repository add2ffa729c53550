package view

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// linear is a colour as linear amounts of red, green and blue light.
type linear [3]float64

// visions holds the colour visions of people: matrices of Machado, Oliveira and Fernandes, "A physiologically-based
// model for simulation of color vision deficiency" (2009), of severity 1.
var visions = map[string][3]linear{
	"all":    {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}},
	"protan": {{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998}},
	"deutan": {{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.011820, 0.042940, 0.968881}},
	"tritan": {{1.255528, -0.076749, -0.178779}, {-0.078411, 0.930809, 0.147602}, {0.004733, 0.691367, 0.303900}},
}

func parseColor(t *testing.T, text string) (c linear) {
	for i := range c {
		n, err := strconv.ParseUint(text[1+2*i:3+2*i], 16, 8)
		require.NoError(t, err)
		if v := float64(n) / 255; v <= 0.04045 {
			c[i] = v / 12.92
		} else {
			c[i] = math.Pow((v+0.055)/1.055, 2.4)
		}
	}
	return c
}

// by returns a colour as seen by people with a vision.
func (c linear) by(vision [3]linear) (out linear) {
	for i, row := range vision {
		out[i] = min(1, max(0, row[0]*c[0]+row[1]*c[1]+row[2]*c[2]))
	}
	return out
}

func (c linear) luminance() float64 { return 0.2126*c[0] + 0.7152*c[1] + 0.0722*c[2] }

// lab returns the coordinates in CIELAB, where people see equal distances as equal differences.
func (c linear) lab() linear {
	f := func(v float64) float64 {
		if v > 0.008856 {
			return math.Cbrt(v)
		}
		return 7.787*v + 16.0/116
	}
	x := f((0.4124*c[0] + 0.3576*c[1] + 0.1805*c[2]) / 0.95047)
	y := f(c.luminance())
	z := f((0.0193*c[0] + 0.1192*c[1] + 0.9505*c[2]) / 1.08883)
	return linear{116*y - 16, 500 * (x - y), 200 * (y - z)}
}

func distance(a, b linear) float64 {
	return math.Sqrt((a[0]-b[0])*(a[0]-b[0]) + (a[1]-b[1])*(a[1]-b[1]) + (a[2]-b[2])*(a[2]-b[2]))
}

// TestColors checks that frames of different kinds, binaries or packages also differ for people with colour vision
// deficiency, and that names on frames have the contrast required by WCAG. Frames without a name are hatched, so they
// may have the same colour as other frames.
func TestColors(t *testing.T) {
	css, err := Asset("flame.css")
	require.NoError(t, err)
	colors := map[string][2]linear{}
	pattern := regexp.MustCompile(`--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)`)
	for _, m := range pattern.FindAllStringSubmatch(string(css), -1) {
		colors[m[1]] = [2]linear{parseColor(t, m[2]), parseColor(t, m[3])}
	}
	kinds := []string{"kernel", "native", "inlined", "runtime", "jit", "other"}
	groups := []string{"rest"}
	for i := range 6 {
		groups = append(groups, fmt.Sprint("group", i))
	}
	for theme, themeName := range []string{"light", "dark"} {
		text := colors["frame-text"][theme].luminance()
		for _, names := range [][]string{kinds, groups} {
			for i, a := range names {
				require.Contains(t, colors, a)
				on := colors[a][theme].luminance()
				require.Greater(t, (max(text, on)+0.05)/(min(text, on)+0.05), 4.5, "text on %s, %s", a, themeName)
				for _, b := range names[:i] {
					for vision, matrix := range visions {
						d := distance(colors[a][theme].by(matrix).lab(), colors[b][theme].by(matrix).lab())
						require.Greater(t, d, 10.0, "%s and %s, %s, %s", a, b, themeName, vision)
					}
				}
			}
		}
	}
}
