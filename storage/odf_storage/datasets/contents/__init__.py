"""What the blocks of a dataset declare about its objects, and checks of those claims."""
