module growing

go 1.17
